"""What the jobs of docs/jobs.toml run."""
