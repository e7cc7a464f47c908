"""Penstock: neural-network jobs compiled to static plans and run by actors."""
