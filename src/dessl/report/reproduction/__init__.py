"""The paper's experiments as they came out here, beside the paper's own numbers."""
