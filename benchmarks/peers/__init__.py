"""Other packages that guard saves, for ``benchmarks.saves``."""
