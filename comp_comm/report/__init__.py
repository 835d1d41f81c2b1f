"""The faces of an answer: tables, machine formats, plots. No physics."""
