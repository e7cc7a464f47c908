"""The kit that all pages stand on: frame, style, font, script."""
