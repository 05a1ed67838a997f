"""Cloud providers, one module or package each; all implement `Provider` in port.py."""
