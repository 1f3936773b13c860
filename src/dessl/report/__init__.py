"""From facts to tables and pictures."""
