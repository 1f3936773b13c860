"""The command line ``dessl``: one command a file, errors in one line, results as text or JSON."""
