"""Open a run and look at it: a script to copy from. Run it with a run directory:

python docs/examples/open_a_run.py ~/labctl-runs/<run directory>
"""

import sys

import labctl

run = labctl.open_run(sys.argv[1])

# What was done, and to what.
print(run.header.drive.model, run.summary.outcome, f"{len(run.phases)} phases")

# A table: columns by name, ready for pandas.DataFrame(...), polars or pyarrow.
table = run.table(measured_only=True)
for label, watts, u, iops in zip(
    table["label"], table["watts"], table["watts_u"], table["iops"], strict=True
):
    if watts is not None:
        print(f"{label:<20} {watts:8.3f} ± {u:.3f} W {iops or 0:12.0f} IOPS")

# Arrays: one rail during one phase. t_ns are ns since 1970 on the run's timebase.
busiest = max(run.summary.measured, key=lambda item: item.iops or 0)
for rail in run.header.rails:
    readings = run.rail(rail.name, busiest)
    print(f"{rail.name}: {len(readings.watts)} readings, mean {readings.mean_watts or 0:.3f} W")

# Any channel, over the whole run.
for name in run.channels[:3]:
    readings = run.channel(name)
    print(f"{name}: {len(readings.values)} readings in {readings.unit or 'its unit'}")

# The review methods.
for knee in run.methods().knees:
    print(f"{knee.workload}: best at QD {knee.queue_depth}, as good: {knee.as_good}")
