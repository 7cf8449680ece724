/* Each process of a trace: its resident memory and its live blocks, over time. */
#ifndef TRACE_PROCESSES_H
#define TRACE_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"

/* Of an address space. Files are the pages that a fault has mapped, shared memory among them: those
 * that the kernel maps around a fault are not known. */
struct resident {
	uint64_t anonymous, files; /* pages */
	uint64_t live;             /* bytes of recorded blocks */
};

/* Bytes of live blocks by their numbers, which a process gives out one after another. */
struct sizes {
	uint64_t *of;
	uint64_t count, room;
};

/* The names are the tasks' last ones, which stay. */
void begin_processes(uint32_t tasks, const struct trace_task *names);
/* A task is of the process that the task `other` is of, or begins one. */
void note_task(uint32_t task, uint32_t other);
void note_parent(uint32_t child, uint32_t parent);
void note_exit(uint32_t task, uint64_t at_ns);
void note_fault(uint32_t task);
/* Its process begins a program. */
void note_program(uint32_t task);
/* Of the first process and all that it could wait for: one whose parent ends before it is nobody's. */
uint64_t waited_faults(void);
/* What a task's space holds now. */
void note_resident(uint32_t task, const struct resident *now, uint64_t at_ns);
void note_moment(unsigned moment, unsigned of);
void print_series(void);
void print_processes(uint64_t at_ns, unsigned moments);

/* False if the trace has more blocks at once than can be accounted for. */
bool set_size(struct sizes *sizes, uint64_t number, uint64_t bytes, uint64_t *live);
bool copy_sizes(struct sizes *copy, const struct sizes *sizes);
void free_sizes(struct sizes *sizes);

#endif
