"""nearkv against the dense model on the same prompt: text quality, speed, memory, and who selects what."""
