"""What the jobs of docs/jobs.toml run: benchmarks and facts about the machine."""
