"""One step told to a reader: every operation, a timeline of its stages, what MFU and HFU count."""
