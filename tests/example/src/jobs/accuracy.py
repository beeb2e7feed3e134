"""What the page about the kernel states, computed in Triton's interpreter."""

import json
import os

Columns = dict[str, str | int | float]


def main() -> None:
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it when it is imported
    import torch

    from rmsnorm.kernel import rms_norm

    x, weight = torch.tensor([[3.0, 4.0]]), torch.tensor([1.0, 2.0])
    out = rms_norm(x, weight, eps=1e-6)
    mean_square = x.square().mean().item()
    report(
        {"claim": "by-hand", "row": "3, 4", "weight": "1, 2"},
        {"mean_square": mean_square, "out": ", ".join(f"{y:.3f}" for y in out[0])},
    )

    generator = torch.Generator().manual_seed(0)
    for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16)):
        for n_cols in (100, 1000, 4096):
            x = torch.randn(8, n_cols, generator=generator).to(dtype)
            weight = torch.randn(n_cols, generator=generator).to(dtype)
            exact = x.double()
            exact *= (exact.square().mean(dim=1, keepdim=True) + 1e-6).rsqrt()
            exact *= weight.double()
            error = (rms_norm(x, weight).double() - exact).abs().max().item()
            rounding = (exact.to(dtype).double() - exact).abs().max().item()
            report(
                {"claim": "accuracy", "dtype": name, "n_cols": n_cols},
                {"error": error, "rounding": rounding},
            )


def report(case: Columns, values: Columns) -> None:
    """Appends a row to the file that codewalk names."""
    with open(os.environ["CODEWALK_ROWS"], "a", encoding="utf-8") as rows:
        rows.write(json.dumps({"case": case, "values": values}) + "\n")


if __name__ == "__main__":
    main()
