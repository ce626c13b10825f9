package harness_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const victimEnv = "HARNESS_TEST_VICTIM"

func TestChildrenDieWithTheTestBinary(t *testing.T) {
	if os.Getenv(victimEnv) != "" {
		beVictim(t)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(self, "-test.run=^"+t.Name()+"$")
	victim.Env = append(os.Environ(), victimEnv+"=1", "TMPDIR="+t.TempDir()) // it cannot clean up
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
	var children []int
	for lines := bufio.NewScanner(out); len(children) < 2 && lines.Scan(); {
		if pid, ok := strings.CutPrefix(lines.Text(), "child "); ok {
			n, _ := strconv.Atoi(pid)
			children = append(children, n)
		}
	}
	if len(children) < 2 {
		t.Fatal("the victim started no children")
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range children {
		harness.Eventually(t, 0, func() bool { return dead(pid) }, "a child dies with its test binary")
	}
}

func TestTestsThatAreInterruptedLeaveNothingBehind(t *testing.T) {
	if os.Getenv(victimEnv) != "" {
		beVictim(t)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		dir := t.TempDir()
		victim := exec.Command(self, "-test.run=^"+t.Name()+"$")
		victim.Env = append(os.Environ(), victimEnv+"=1", "TMPDIR="+dir)
		out, err := victim.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = victim.Process.Kill() })
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) == 0 {
			t.Fatalf("the victim has nothing in the temporary directory (%v)", err)
		}
		if err := victim.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = victim.Wait()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v leaves %v (%v)", signal, left, err)
		}
	}
}

// beVictim starts a running and a frozen child and waits for its death.
func beVictim(t *testing.T) {
	t.Helper()
	running := harness.StartRedis(t)
	frozen := harness.StartAgent(t, running.Addr)
	frozen.Pause()
	fmt.Printf("child %d\nchild %d\n", running.Pid(), frozen.Pid())
	select {}
}

// dead takes a zombie that init has not yet reaped for dead, too.
func dead(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestWaitTellsHowAProcessEnded(t *testing.T) {
	server := harness.StartRedis(t)
	server.Terminate()
	if code := server.Wait(); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	server.Restart()
	server.Kill()
	if code := server.Wait(); code != -1 {
		t.Errorf("exit code %d after SIGKILL, want -1", code)
	}
}

func TestAPortIsGivenOnce(t *testing.T) {
	given := map[int]bool{}
	for range 200 {
		port := harness.FreePort(t)
		if given[port] {
			t.Fatalf("port %d was given twice", port)
		}
		given[port] = true
	}
}
