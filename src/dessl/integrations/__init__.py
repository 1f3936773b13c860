"""Other people's trainers; each needs an extra, and nothing else in dessl imports them."""
