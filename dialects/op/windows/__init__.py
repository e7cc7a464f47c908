"""Ops on windows of images: convolutions and pools."""
