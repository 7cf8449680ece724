"""celery, airflow: a peak of small objects, of which one in 50 lives on in Python's arenas."""

import sys
import time

answer = bytearray(32 << 20)
del answer
kept = [str(i) * 3 for i in range(800_000)][:: 800_000 if sys.argv[2:] == ["none"] else 50]
print("ready", flush=True)
while True:
    time.sleep(1)
