/* What the recorder and the library that it preloads say to each other. */
#ifndef TRACE_SHIM_H
#define TRACE_SHIM_H

/* As the advice of an madvise(2) of nothing, which the kernel refuses: constructors run now. */
#define SHIM_STARTS 0x6d656d6cULL

#endif
