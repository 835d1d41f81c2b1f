"""Other papers' results, made again with their own models and shown beside what they published."""
