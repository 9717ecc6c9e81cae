// A stand-in for CUDA's driver library. It records calls, and copies only when an event is waited for: a buffer that is used
// again too early shows. As CUDA does, it keeps the context that is current per thread, and refuses what needs one without it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <pthread.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
enum { INIT, GET, RETAIN, LEAVE, PUSH, REGISTER, UNREGISTER, ALLOC, FREE, CREATE, DESTROY, COPY, ECREATE, ERECORD, EWAIT, EDESTROY, SYNCHRONIZE, POP, CALLS }; // up to PUSH they need no context
enum { NO_CONTEXT = 201 };
static int calls[CALLS];
static int failing = -1;
static __thread void *stack[16]; // contexts: the last of depth is current
static __thread int depth;
static void *current(void) { return depth ? stack[depth-1] : 0; }
static struct { void *to; const void *from; size_t n; } queue[1 << 16];
static int queued, copied;

static int called(int which) {
	pthread_mutex_lock(&mu);
	calls[which]++;
	int result = which == failing ? 700 : which > PUSH && !current() ? NO_CONTEXT : 0;
	pthread_mutex_unlock(&mu);
	return result;
}
int standin_calls(int which) { return calls[which]; }
void standin_fail(int which) { failing = which; memset(calls, 0, sizeof calls); queued = copied = 0; }

int cuInit(unsigned f) { return called(INIT); }
int cuDeviceGet(int *d, int i) { *d = i; return called(GET); }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &mu; return called(RETAIN); }
int cuDevicePrimaryCtxRelease_v2(int d) { return called(LEAVE); }
int cuCtxPushCurrent_v2(void *c) { int r = called(PUSH); if (!r) stack[depth++] = c; return r; }
int cuCtxPopCurrent_v2(void **c) { int r = called(POP); if (r != NO_CONTEXT) *c = stack[--depth]; return r; }
int cuCtxGetCurrent(void **c) { *c = current(); return 0; }
int cuMemHostRegister_v2(void *p, size_t n, unsigned f) { return called(REGISTER); }
int cuMemHostUnregister(void *p) { return called(UNREGISTER); }
int cuMemAlloc_v2(uint64_t *p, size_t n) { int r = called(ALLOC); if (!r) *p = (uint64_t)malloc(n); return r; }
int cuMemFree_v2(uint64_t p) { int r = called(FREE); if (r != NO_CONTEXT) free((void *)p); return r; }
int cuStreamCreate(void **s, unsigned f) { *s = &mu; return called(CREATE); }
int cuStreamDestroy_v2(void *s) { return called(DESTROY); }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
	int r = called(COPY);
	if (r) return r;
	pthread_mutex_lock(&mu);
	queue[queued].to = (void *)to, queue[queued].from = from, queue[queued].n = n;
	queued++;
	pthread_mutex_unlock(&mu);
	return 0;
}
int cuEventCreate(void **e, unsigned f) {
	int r = called(ECREATE);
	if (!r) *e = calloc(1, sizeof(int)); // an event that was never recorded waits for nothing
	return r;
}
int cuEventRecord(int *e, void *s) {
	int r = called(ERECORD);
	if (r) return r;
	pthread_mutex_lock(&mu);
	*e = queued;
	pthread_mutex_unlock(&mu);
	return 0;
}
static void copy_until(int end) {
	pthread_mutex_lock(&mu);
	for (; copied < end; copied++) memcpy(queue[copied].to, queue[copied].from, queue[copied].n);
	pthread_mutex_unlock(&mu);
}
int cuEventSynchronize(int *e) { int r = called(EWAIT); if (r != NO_CONTEXT) copy_until(*e); return r; }
int cuStreamSynchronize(void *s) { int r = called(SYNCHRONIZE); if (r != NO_CONTEXT) copy_until(queued); return r; }
int cuEventDestroy_v2(int *e) { int r = called(EDESTROY); if (r != NO_CONTEXT) free(e); return r; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
	if (!current()) return NO_CONTEXT;
	memcpy(to, (void *)from, n);
	return 0;
}
