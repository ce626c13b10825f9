// A stand-in for RedisJSON: documents are texts, and a path is always the whole. What matters to the tests is what the
// server says of the commands (COMMAND), and that they read and write the key as commands of a module do.
#include <stddef.h>

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleCallReply RedisModuleCallReply;
typedef int (*Command)(RedisModuleCtx *, RedisModuleString **, int);

static void (*SetModuleAttribs)(RedisModuleCtx *, const char *, int, int);
static int (*CreateCommand)(RedisModuleCtx *, const char *, Command, const char *, int, int, int);
static RedisModuleCallReply *(*Call)(RedisModuleCtx *, const char *, const char *, ...);
static int (*ReplyWithCallReply)(RedisModuleCtx *, RedisModuleCallReply *);
static int (*WrongArity)(RedisModuleCtx *);
static int (*ReplicateVerbatim)(RedisModuleCtx *);

static int get(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
	if (argc < 2) return WrongArity(ctx);
	return ReplyWithCallReply(ctx, Call(ctx, "GET", "s", argv[1]));
}

// set is JSON.SET key path value [NX | XX], and JSON.MERGE, which takes the value for the whole document.
static int set(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
	if (argc < 4 || argc > 5) return WrongArity(ctx);
	ReplicateVerbatim(ctx);
	if (argc == 5) return ReplyWithCallReply(ctx, Call(ctx, "SET", "sss", argv[1], argv[3], argv[4]));
	return ReplyWithCallReply(ctx, Call(ctx, "SET", "ss", argv[1], argv[3]));
}

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
	int (*api)(const char *, void *) = (int (*)(const char *, void *))((void **)ctx)[0];
	(void)argv, (void)argc;
	if (api("RedisModule_SetModuleAttribs", &SetModuleAttribs) || api("RedisModule_CreateCommand", &CreateCommand) ||
	    api("RedisModule_Call", &Call) || api("RedisModule_ReplyWithCallReply", &ReplyWithCallReply) ||
	    api("RedisModule_WrongArity", &WrongArity) || api("RedisModule_ReplicateVerbatim", &ReplicateVerbatim))
		return 1;
	SetModuleAttribs(ctx, "ReJSON", 1, 1);
	return CreateCommand(ctx, "json.get", get, "readonly", 1, 1, 1) || CreateCommand(ctx, "json.set", set, "write deny-oom", 1, 1, 1) ||
	       CreateCommand(ctx, "json.merge", set, "write deny-oom", 1, 1, 1);
}
