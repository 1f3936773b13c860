"""The paper run again: experiments as data, one module for each kind, and their report."""
