"""The figures of each shape of experiment."""
