"""How a hint writes the commands that belong to a group; they are named here and nowhere else."""

PULL = "memlab pull"
WORKER = "memlab worker"
LADDER = "memlab ladder"
KERNELS = "memlab kernels"
