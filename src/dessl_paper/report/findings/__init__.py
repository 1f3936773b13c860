"""What agrees with the paper and what does not, in sentences made from the numbers."""
