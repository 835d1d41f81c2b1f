"""Work times hardware is seconds: arithmetic, memory traffic, collectives on network tiers."""
