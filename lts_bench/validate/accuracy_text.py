"""The prose of the accuracy page; every number in braces comes from the run."""

TEMPLATE = """\
# How accurate the predictions are

The cost model answers measured tables, and one command compares and writes this page:

`lts-bench validate report DATA_DIR --out docs/accuracy.md`

DATA_DIR holds `kernels/*.csv`, `e2e/silicon_agg.csv`, `e2e/trtllm.csv`, `e2e/fastertransformer.csv` and `models/`, a
config.json for each model. Kernels, collectives and serving runs are published inside aiconfigurator-core 0.12.0 and
aisimulate 0.13.0 (Apache-2.0, NVIDIA CORPORATION & AFFILIATES; part of the runs first by the InferenceX benchmark), the
others in the performance documents of TensorRT-LLM and FasterTransformer (Apache-2.0). [validate.md](validate.md)
tells how to answer measurements of your own.

Median, mean and p90 are of the absolute error, predicted ÷ measured − 1 without its sign. Bias is the median with the
sign: positive where predictions are too high. Spearman is the rank correlation. Skipped rows have no prediction.

## In short

{overview}
## Kernels

The constants of H100 and B200 are fitted to these same tables by `lts-bench calibrate`: this is how well the closed
forms fit. The error on shapes that were held out is in the chips' files (`relative_error`).

{kernels}
![predicted against measured times of kernels]({plots}/kernels.png)

## Collectives and expert exchange

Fitted to these tables as well, one set of constants for each kind of switch. Eager rows are launched from the host one
by one: most of a small one is host time. Exchange rows that are equal on two systems count once.

{collectives}
{exchange}
![predicted against measured times of collectives]({plots}/collectives.png)

## Serving

Closed loops of clients on one replica. The TTFT of a row counts unless queueing dominates it. The intervals are those
of a bootstrap over the {cells} cells of model × system × engine × precision, since the rows of a cell err alike; fewer
than three cells have none.

TPOT:

{tpot}
TTFT:

{ttft}
The mean of TTFT is that of few rows: {far_rows} err by more than {far} %, most where the clients about fill the room of
the KV cache, so that a queue was measured and is not predicted, or the other way round.

Within a sweep over concurrency the order of TPOT is right to a Spearman of {sweeps} in the mean.

**Choice of a layout.** In {choices} choices the same model was served on the same number of the same devices at the
same load, under layouts whose TPOT spreads by a tenth or more. The layout that is predicted to be the fastest is so in
{hit} % of them; over the fastest it costs {regret} % in the mean.

![predicted against measured TPOT and TTFT]({plots}/serving.png)

### Held out

Constants refitted without a model, or without a system, and tried on it; `seen` are constants refitted to all runs.
They are the two of the host for TPOT, and the three of a request, engine by engine, for TTFT. Medians of the error:

{held_out}
## Maximum throughput

{throughput}
## Static batches

{static}
![predicted against measured throughput and latency]({plots}/performance.png)

## What was fitted end to end

These constants saw the runs above. All others come from tables of kernels and networks or from datasheets, or they are
assumed; the files in `lts_bench/data/` say which.

{constants}
## What these figures cannot tell

- **Noise.** The same configuration differs between engines, and between versions of one. The table has the TPOT of the
  slower over the faster. Published throughput of TensorRT-LLM moved by 0.83 to 1.15 from version 0.17 to 0.20. Nobody
  can claim less error than that for a version that was not measured.

{twins}
- **Scale.** No replica has more than {most_devices} devices, and pp is {most_stages} at most. Larger ones are composed
  of parts that are measured, and are not validated as a whole. Between nodes, beyond NVLink, the expert exchange alone
  is measured: other collectives over `scale_out`, oversubscribed networks, dragonflies and tori are not validated.
- **Chips.** All measurements are of NVIDIA's chips. Others are datasheets with assumed efficiencies.
- **Experts.** The tables of kernels have balanced routing only. How uneven it is when served is a
  constant that was chosen on the runs above.
- **Host.** Launches outside graphs and the work of an engine between steps are those of the hosts that were measured.

What the model leaves out is listed in [evaluate.md](evaluate.md#how-far-to-trust-it).
"""
