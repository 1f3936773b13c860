"""The tables of each shape of experiment."""
