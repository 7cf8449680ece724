/*
 * Whether a probe's pages may be huge.
 */
#ifndef MEMLAB_THP_H
#define MEMLAB_THP_H

/* cdef: read by cffi as it stands */
enum thp {
	THP_NEVER,   /* by prctl(2), for this process alone */
	THP_MADVISE, /* the host's setting, as is the next */
	THP_ALWAYS
};
/* end */

#endif
