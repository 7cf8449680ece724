"""File trees of machines that are not this one, written into a folder."""

from pathlib import Path


def grow(root: Path, files: dict[str, str]) -> Path:
    """Writes the files under `root`, which it returns."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


CPUINFO_X86 = (
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) @ 2.00GHz\n"
    "microcode\t: 0x2b0\nflags\t\t: fpu vme{more}\n\n"
    "processor\t: 1\nvendor_id\t: GenuineIntel\nmodel name\t: Another\n\n"
)

BARE_METAL = {
    "proc/cpuinfo": CPUINFO_X86.format(more=""),
    "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
    "proc/sys/kernel/arch": "x86_64\n",
    "proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\nSwapTotal: 0 kB\n"
    "HugePages_Total: 8\nHugePages_Free: 3\nHugepagesize: 2048 kB\n",
    "proc/self/status": "Name:\tpython3\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-3\n",
    "proc/self/uid_map": "         0          0 4294967295\n",
    "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 1024 0 -2\n",
    "sys/devices/system/cpu/online": "0-3\n",
    **{
        f"sys/devices/system/cpu/cpu{n}/topology/{name}": f"{value}\n"
        for n in range(4)
        for name, value in [
            ("physical_package_id", n // 2),
            ("thread_siblings_list", f"{n // 2 * 2}-{n // 2 * 2 + 1}"),
        ]
    },
    "sys/devices/system/cpu/cpu0/cache/index0/level": "1\n",
    "sys/devices/system/cpu/cpu0/cache/index0/type": "Data\n",
    "sys/devices/system/cpu/cpu0/cache/index0/size": "48K\n",
    "sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size": "64\n",
    "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list": "0-1\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/devices/system/cpu/vulnerabilities/meltdown": "Mitigation: PTI\n",
    "sys/devices/system/cpu/vulnerabilities/mds": "Not affected\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_driver": "intel_pstate\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    "sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
    "sys/class/dmi/id/product_name": "PowerEdge R640\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled": "always inherit madvise [never]\n",
    "sys/devices/system/node/online": "0-1\n",
    "sys/devices/system/node/node0/cpulist": "0-1\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:  512 kB\nNode 0 MemFree: 1 kB\n",
    "sys/devices/system/node/node1/cpulist": "2-3\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
    "etc/machine-id": "3d1219c7c4c5404aaa1f6d2a48adfda4\n",
}

KVM_GUEST = BARE_METAL | {
    "proc/cpuinfo": CPUINFO_X86.format(more=" hypervisor"),
    "sys/class/dmi/id/sys_vendor": "QEMU\n",
    "sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc\n",
}

ARM64 = {
    "proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 96.00\nFeatures\t: fp asimd\n"
    "CPU implementer\t: 0x70\nCPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0x663\n"
    "CPU revision\t: 3\n\n",
    "proc/sys/kernel/arch": "aarch64\n",
    "proc/device-tree/model": "Phytium D2000\0",
    "sys/devices/system/cpu/online": "0\n",
}

HYBRID_MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
HYBRID = {
    "proc/self/mountinfo": HYBRID_MOUNTS,
    "proc/self/cgroup": "4:memory:/batch/job\n1:cpu,cpuacct:/\n0::/\n",
    "sys/fs/cgroup/memory/batch/job/memory.stat": "cache 0\nhierarchical_memory_limit 268435456\n",
    "sys/fs/cgroup/unified/cgroup.controllers": "\n",
}

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V2 = {
    "proc/self/mountinfo": V2_MOUNT,
    "proc/self/cgroup": "0::/user.slice/app.scope\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu io memory pids\n",
    "sys/fs/cgroup/user.slice/cgroup.controllers": "memory\n",
    "sys/fs/cgroup/user.slice/memory.max": "1073741824\n",
    "sys/fs/cgroup/user.slice/memory.high": "max\n",
    "sys/fs/cgroup/user.slice/app.scope/cgroup.controllers": "memory\n",
    "sys/fs/cgroup/user.slice/app.scope/memory.max": "max\n",
    "sys/fs/cgroup/user.slice/app.scope/memory.high": "536870912\n",
}
