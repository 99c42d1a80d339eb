"""Holds 500,000 words in a dictionary."""
import time
words = {f"word {n}": n for n in range(500_000)}
print(len(words), "words", flush=True)
time.sleep(1_000)
