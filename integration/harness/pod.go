package harness

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// productImage begins the images of containers that run fence-proxy.
const productImage = "ghcr.io/fence-proxy/"

// Pod runs the containers of a pod as a kubelet does, as processes on this machine's loopback address: the order of start and
// end, startup probes, hooks, restarts of sidecars, variables, and volumes with the links that a kubelet makes. What it does
// not do is isolate: where a volume is mounted, the processes are told its directory instead.
type Pod struct {
	// Waiting is called whenever a sidecar's startup probe has failed.
	Waiting func()

	tb    testing.TB
	spec  *corev1.PodSpec
	files PodFiles
	dir   string

	mounts   map[string]string // paths in containers, and the directories here
	log      *Transcript
	sidecars []*container
	agents   []*container
	swaps    int
}

// PodFiles are what the pod refers to, by name.
type PodFiles struct {
	ConfigMaps, Secrets map[string]map[string]string
}

// container is one that has been started.
type container struct {
	*Process
	corev1.Container
	env []string
}

// NewPod makes the volumes of a pod. Nothing is started.
func NewPod(tb testing.TB, pod *corev1.Pod, files PodFiles) *Pod {
	tb.Helper()
	p := &Pod{tb: tb, spec: &pod.Spec, files: files, dir: shortTempDir(tb), mounts: map[string]string{}, log: &Transcript{}}
	logIfFailed(tb, "pod "+pod.Name, p.log)
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if err := os.Mkdir(p.volume(v.Name), 0o777); err != nil {
			tb.Fatal(err)
		}
		if v.ConfigMap != nil {
			p.publish(v.Name, v.ConfigMap.Name)
		}
	}
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for i := range all {
		for _, m := range all[i].VolumeMounts {
			p.mounts[m.MountPath] = p.volume(m.Name)
		}
	}
	return p
}

// Start starts the containers in their order, and returns when all run. It fails the test unless the sidecars get ready.
func (p *Pod) Start() {
	p.tb.Helper()
	for i := range p.spec.InitContainers {
		c := p.run(&p.spec.InitContainers[i])
		if c.RestartPolicy == nil {
			if code := c.Wait(); code != 0 {
				p.tb.Fatalf("init container %s has ended with %d", c.Name, code)
			}
			continue
		}
		p.sidecars = append(p.sidecars, c)
		p.awaitStart(c)
	}
	for i := range p.spec.Containers {
		c := p.run(&p.spec.Containers[i])
		p.agents = append(p.agents, c)
		if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
			if code := p.hook(c, c.Lifecycle.PostStart.Exec).Wait(); code != 0 {
				p.tb.Fatalf("the hook of container %s after its start has ended with %d", c.Name, code)
			}
		}
	}
}

// Terminate ends the pod as when it is deleted, and returns when all containers have ended: first the ordinary ones, all at
// once, then the sidecars, the last one first.
func (p *Pod) Terminate() {
	p.tb.Helper()
	done := make(chan struct{})
	for _, c := range p.agents {
		var before *Process
		if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
			before = p.hook(c, c.Lifecycle.PreStop.Exec)
		}
		go func() {
			defer func() { done <- struct{}{} }()
			if before != nil {
				<-before.gone
			}
			_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			<-c.gone
		}()
	}
	for range p.agents {
		select {
		case <-done:
		case <-time.After(2 * patience):
			p.tb.Fatal("a container has not ended")
		}
	}
	p.endSidecars()
}

// AwaitCompletion waits until the ordinary containers have ended by themselves, as those of a Job do, ends the sidecars, and
// returns the exit codes of the ordinary ones.
func (p *Pod) AwaitCompletion() []int {
	p.tb.Helper()
	var codes []int
	for _, c := range p.agents {
		codes = append(codes, c.Wait())
	}
	p.endSidecars()
	return codes
}

func (p *Pod) endSidecars() {
	p.tb.Helper()
	for _, c := range slices.Backward(p.sidecars) {
		c.Process.Terminate()
		if code := c.Wait(); code != 0 {
			p.tb.Errorf("sidecar %s has ended with %d", c.Name, code)
		}
	}
}

// UpdateConfigMap changes a ConfigMap as a kubelet does it: another directory takes the place of that with the files.
func (p *Pod) UpdateConfigMap(name string, data map[string]string) {
	p.tb.Helper()
	p.files.ConfigMaps[name] = data
	for i := range p.spec.Volumes {
		if v := &p.spec.Volumes[i]; v.ConfigMap != nil && v.ConfigMap.Name == name {
			p.publish(v.Name, name)
		}
	}
}

// Logs is what the containers have printed.
func (p *Pod) Logs() string { return p.log.String() }

// Env is a container's environment as the pod's text has it, resolved.
func (p *Pod) Env(name string) map[string]string {
	p.tb.Helper()
	all := slices.Concat(p.spec.InitContainers, p.spec.Containers)
	for i := range all {
		if all[i].Name == name {
			return p.resolve(&all[i])
		}
	}
	p.tb.Fatalf("no container %s", name)
	return nil
}

func (p *Pod) volume(name string) string { return filepath.Join(p.dir, name) }

// publish makes the files of a ConfigMap, which are links through ..data, and swaps ..data.
func (p *Pod) publish(volume, configMap string) {
	p.tb.Helper()
	data, ok := p.files.ConfigMaps[configMap]
	if !ok {
		p.tb.Fatalf("MountVolume.SetUp failed for volume %q: configmap %q not found", volume, configMap)
	}
	p.swaps++
	dir, current := p.volume(volume), fmt.Sprintf("..%d", p.swaps)
	var errs []error
	errs = append(errs, os.Mkdir(filepath.Join(dir, current), 0o755))
	for name, text := range data {
		errs = append(errs, os.WriteFile(filepath.Join(dir, current, name), []byte(text), 0o600))
	}
	link := filepath.Join(dir, "..data")
	before, _ := os.Readlink(link)
	errs = append(errs, os.Symlink(current, link+"_tmp"), os.Rename(link+"_tmp", link))
	for name := range data {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			errs = append(errs, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
		}
	}
	if before != "" {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, before)))
	}
	if err := errors.Join(errs...); err != nil {
		p.tb.Fatal(err)
	}
}

// run starts a container.
func (p *Pod) run(c *corev1.Container) *container {
	p.tb.Helper()
	running := &container{Container: *c}
	for name, value := range p.resolve(c) {
		running.env = append(running.env, name+"="+p.here(value))
	}
	running.Process = p.launch(c.Name, slices.Concat(c.Command, c.Args), c.Image, running.env)
	return running
}

func (p *Pod) hook(c *container, action *corev1.ExecAction) *Process {
	p.tb.Helper()
	return p.launch(c.Name+"'s hook", action.Command, c.Image, c.env)
}

// launch runs a command line in an image. Containers have no environment but their own; what the image has is the test's.
func (p *Pod) launch(name string, line []string, image string, env []string) *Process {
	p.tb.Helper()
	args := make([]string, len(line))
	for i, arg := range line {
		args[i] = p.here(arg)
	}
	if strings.HasPrefix(image, productImage) {
		if len(args) > 0 && args[0] == "/fence-proxy" { // in a hook
			args = args[1:]
		}
		args = append([]string{Build(p.tb)}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(environment(nil), env...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	return launch(p.tb, name, cmd)
}

// here puts directories of this machine in the place of mount paths.
func (p *Pod) here(text string) string {
	for path, dir := range p.mounts {
		text = strings.ReplaceAll(text, path+"/", dir+"/")
	}
	return text
}

// awaitStart probes a sidecar until it has started. One that ends is started anew.
func (p *Pod) awaitStart(c *container) {
	p.tb.Helper()
	if c.StartupProbe == nil {
		return
	}
	if !poll(2*patience, func() bool {
		if c.exited() {
			c.Process = p.run(&c.Container).Process
		}
		if p.probe(&c.Container, c.StartupProbe) {
			return true
		}
		if p.Waiting != nil {
			p.Waiting()
		}
		return false
	}) {
		p.tb.Fatalf("sidecar %s has not started and %s", c.Name, c.fate())
	}
}

// probe asks as a kubelet does.
func (p *Pod) probe(c *corev1.Container, probe *corev1.Probe) bool {
	port := probe.HTTPGet.Port.IntValue()
	if probe.HTTPGet.Port.Type == intstr.String {
		for _, named := range c.Ports {
			if named.Name == probe.HTTPGet.Port.StrVal {
				port = int(named.ContainerPort)
			}
		}
	}
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + loopback(port) + probe.HTTPGet.Path)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode < http.StatusBadRequest
}

// resolve makes a container's variables.
func (p *Pod) resolve(c *corev1.Container) map[string]string {
	p.tb.Helper()
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			p.all(env, from, p.files.ConfigMaps, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		case from.SecretRef != nil:
			p.all(env, from, p.files.Secrets, from.SecretRef.Name, from.SecretRef.Optional)
		}
	}
	for _, v := range c.Env {
		switch {
		case v.ValueFrom == nil:
			env[v.Name] = expand(v.Value, env)
		case v.ValueFrom.SecretKeyRef != nil:
			env[v.Name] = p.key(p.files.Secrets, v.ValueFrom.SecretKeyRef.Name, v.ValueFrom.SecretKeyRef.Key)
		case v.ValueFrom.ConfigMapKeyRef != nil:
			env[v.Name] = p.key(p.files.ConfigMaps, v.ValueFrom.ConfigMapKeyRef.Name, v.ValueFrom.ConfigMapKeyRef.Key)
		default:
			p.tb.Fatalf("variable %s of %s comes from where no test needs it from", v.Name, c.Name)
		}
	}
	return env
}

func (p *Pod) all(env map[string]string, from corev1.EnvFromSource, sets map[string]map[string]string, name string, optional *bool) {
	p.tb.Helper()
	set, ok := sets[name]
	if !ok && (optional == nil || !*optional) {
		p.tb.Fatalf("CreateContainerConfigError: %q not found", name)
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		env[from.Prefix+key] = set[key]
	}
}

func (p *Pod) key(sets map[string]map[string]string, name, key string) string {
	p.tb.Helper()
	value, ok := sets[name][key]
	if !ok {
		p.tb.Fatalf("CreateContainerConfigError: couldn't find key %s in %q", key, name)
	}
	return value
}

// expand puts variables in the place of $(NAME); $$ is a dollar, and a reference to what there is not stays as it is.
func expand(text string, env map[string]string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteString("$")
			text = rest[1:]
			continue
		case strings.HasPrefix(rest, "("):
			if name, after, closed := strings.Cut(rest[1:], ")"); closed {
				value, ok := env[name]
				if !ok {
					value = "$(" + name + ")"
				}
				b.WriteString(value)
				text = after
				continue
			}
		}
		b.WriteString("$")
		text = rest
	}
}
