"""A fused RMSNorm."""
