"""Everything read from YAML: the catalogue, hardware profiles, models and studies."""
