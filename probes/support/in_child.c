#include "in_child.h"
#include "pages.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct answer {
	struct probe_error error;
	enum probe_status status;
	_Alignas(8) uint8_t out[];
};

enum probe_status in_child(probe_work *work, const void *in, void *out, size_t out_bytes,
			   struct probe_error *err)
{
	const size_t size_bytes = sizeof(struct answer) + out_bytes;
	enum probe_status status = PROBE_OK;
	struct answer *answer = MAP_FAILED;
	int ended;
	pid_t child;

	TRY_MAP(answer, mmap_anonymous(size_bytes, MAP_SHARED));
	TRY(child = fork());
	if (child == 0) {
		memset(answer, 0,
		       size_bytes); /* so that its pages fault here, outside any window */
		answer->status = work(in, answer->out, &answer->error);
		_exit(0);
	}
	TRY(waitpid(child, &ended, 0));
	CHECK_PARAM(WIFEXITED(ended), "the check's process was killed");
	memcpy(out, answer->out, out_bytes);
	*err = answer->error;
	status = answer->status;
out:
	RELEASE(unmap(answer, size_bytes));
	return status;
}
