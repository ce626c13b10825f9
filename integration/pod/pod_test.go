//go:build integration

package pod

import (
	"encoding/json"
	"os"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/fence-proxy/fence-proxy/integration/harness/podtest"
	"github.com/fence-proxy/fence-proxy/internal/webhook"
)

func TestLife(t *testing.T) {
	template, err := os.ReadFile("../../internal/webhook/testdata/template.yaml") // the chart's
	if err != nil {
		t.Fatal(err)
	}
	podtest.Life{Inject: inject, Template: string(template)}.Run(t)
}

// inject does what the API server does with the webhook's answer.
func inject(t *testing.T, text string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	template, err := webhook.ParseTemplate([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := json.Marshal(webhook.Decide(pod, template).Patch)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(steps)
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		t.Fatal(err)
	}
	injected := new(corev1.Pod)
	if err := json.Unmarshal(after, injected); err != nil {
		t.Fatal(err)
	}
	return injected
}
