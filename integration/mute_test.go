//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Since 7.2 Redis does not answer a login that fails behind commands whose replies are still to be written: the next reply would pass
// for it, and what is not logged in for logged in.
func TestAFailedLoginIsAnsweredAmongOtherCommands(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	allow(t, server, "agent", "+@all ~* &*")
	for name, config := range map[string]string{"guarded": guarding(), "unguarded": "rules: []\n"} {
		t.Run(name, func(t *testing.T) {
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: config})
			for _, login := range [][]string{{"AUTH", "agent", "wrong"}, {"HELLO", "2", "AUTH", "agent", "wrong"}} {
				client, conn := connect(t, "client", proxy.Addr)
				says := func(commands ...[]string) {
					text := ""
					for _, c := range commands {
						text += harness.Encode(c...)
					}
					conn.Send(text)
				}
				says([]string{"GET", "free"}, []string{"ECHO", "1"}, login, []string{"ECHO", "2"}, []string{"SET", "ctx:s", "v"}, login, login, []string{"ECHO", "3"})
				client.hears(nil)
				client.hears("1")
				client.hearsError("WRONGPASS")
				client.hears("2")
				client.hears("OK")
				client.hearsError("WRONGPASS")
				client.hearsError("WRONGPASS")
				client.hears("3")

				says([]string{"MULTI"}, []string{"ECHO", "1"}, login, []string{"EXEC"}, []string{"ECHO", "2"})
				client.hears("OK")
				client.hears("QUEUED")
				switch reply := client.reply().(type) {
				case string: // a Redis that answers
					if all, ok := client.reply().([]any); !ok || len(all) != 2 || all[0] != "1" || !isError(all[1], "WRONGPASS") {
						t.Errorf("%q: QUEUED, and then %q", login, all)
					}
				case harness.ReplyError:
					if !isError(reply, "FENCEDENIED") {
						t.Errorf("%q: %v", login, reply)
					}
					client.hearsError("EXECABORT")
				}
				client.hears("2")
				client.does("default", "ACL", "WHOAMI")

				right := append(append([]string{}, login[:len(login)-1]...), "pw")
				says([]string{"MULTI"}, []string{"ECHO", "1"}, right, []string{"EXEC"}, []string{"ACL", "WHOAMI"})
				client.hears("OK")
				client.hears("QUEUED")
				client.hears("QUEUED")
				if all, ok := client.reply().([]any); !ok || len(all) != 2 || all[0] != "1" {
					t.Errorf("%q: %q", right, all)
				}
				client.hears("agent")
			}
		})
	}
}
