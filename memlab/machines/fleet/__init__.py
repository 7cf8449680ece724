"""Many hosts: what links to them, judges their runs beside each other, prints and draws."""
