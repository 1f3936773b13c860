"""Integrations with other trainers; each needs an extra, and no other module imports them."""
