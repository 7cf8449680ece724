/*
 * Who is killed first where memory runs out: the score of proc_pid_oom_score_adj(5).
 */
#ifndef MEMLAB_OOM_SCORE_H
#define MEMLAB_OOM_SCORE_H

/* Zeroed it is empty. */
struct oom_score {
	char own[16]; /* what this process had; empty: nothing was changed */
};

/*
 * The score cannot go above 1000, which a worker has already, and weighs as a
 * share of the cgroup's limit; so the probe steps back to 0 instead, with which
 * it can hold all of the limit and still come after its children. Its own is
 * kept. Both return 0, or -1 and errno.
 */
int oom_score_step_back(struct oom_score *score);

/* Puts back what was kept. Does nothing where nothing was. */
int oom_score_restore(struct oom_score *score);

#endif
