package webhook

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// told remembers what a reporter hears.
type told []string

func (r *told) skipped(namespace string, pod *corev1.Pod, d Decision) {
	*r = append(*r, namespace+"/"+pod.Name+" "+string(d.Reason))
}

// review asks a handler about a pod and returns the answer's status and the answer.
func review(t *testing.T, h *handler, pod string, edits ...func(*admissionv1.AdmissionReview)) (int, *admissionv1.AdmissionResponse) {
	t.Helper()
	object, err := json.Marshal(parsePod(t, pod))
	if err != nil {
		t.Fatal(err)
	}
	r := &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "u-1", Namespace: "agents", Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Object: runtime.RawExtension{Raw: object},
		},
	}
	for _, edit := range edits {
		edit(r)
	}
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, "/inject", strings.NewReader(string(body)))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		return recorder.Code, nil
	}
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Response == nil || answer.Response.UID != r.Request.UID || answer.APIVersion != r.APIVersion || answer.Kind != r.Kind || answer.Request != nil {
		t.Fatalf("not an answer to the review: %s", recorder.Body)
	}
	return recorder.Code, answer.Response
}

func testHandler(t *testing.T, edits ...func(*Template)) (*handler, *told) {
	t.Helper()
	template, reporter := testTemplate(t), new(told)
	for _, edit := range edits {
		edit(template)
	}
	return &handler{template: func() *Template { return template }, reporter: reporter, log: slog.New(slog.NewTextHandler(t.Output(), nil))}, reporter
}

var hostNetwork = asking("", "  hostNetwork: true\n"+agentSpec)

func TestAnInjectedPodIsAnsweredWithItsPatch(t *testing.T) {
	h, reporter := testHandler(t)
	pod := asking("", agentSpec)
	_, answer := review(t, h, pod)
	want, err := json.Marshal(Decide(parsePod(t, pod), testTemplate(t)).Patch)
	if err != nil {
		t.Fatal(err)
	}
	if !answer.Allowed || answer.PatchType == nil || *answer.PatchType != "JSONPatch" || !bytes.Equal(answer.Patch, want) || len(answer.Warnings) != 0 {
		t.Errorf("answer %+v", answer)
	}
	if len(*reporter) != 0 {
		t.Errorf("reported: %v", *reporter)
	}
}

func TestASkippedPodIsCreatedAndItsAuthorWarned(t *testing.T) {
	h, reporter := testHandler(t)
	_, answer := review(t, h, hostNetwork)
	if !answer.Allowed || len(answer.Warnings) != 1 || !strings.Contains(answer.Warnings[0], "host-network") || !strings.Contains(string(answer.Patch), "fence-proxy~1reason") {
		t.Errorf("answer %+v", answer)
	}
	if !slices.Equal(*reporter, []string{"agents/p host-network"}) {
		t.Errorf("reported: %v", *reporter)
	}
}

func TestWhereItMustNotGoWithoutASkippedPodIsRefused(t *testing.T) {
	h, reporter := testHandler(t, func(t *Template) { t.Refuse = true })
	_, answer := review(t, h, hostNetwork)
	if answer.Allowed || len(answer.Patch) != 0 || answer.Result == nil || !strings.Contains(answer.Result.Message, "host-network: ") {
		t.Errorf("answer %+v", answer)
	}
	if len(*reporter) != 1 {
		t.Errorf("reported: %v", *reporter)
	}
	for _, pod := range []string{asking("", agentSpec), strings.Replace(hostNetwork, `"true"`, `"false"`, 1)} {
		if _, answer := review(t, h, pod); !answer.Allowed {
			t.Errorf("answer %+v", answer)
		}
	}
}

func TestADryRunIsNotReported(t *testing.T) {
	h, reporter := testHandler(t)
	_, answer := review(t, h, hostNetwork, func(r *admissionv1.AdmissionReview) { r.Request.DryRun = new(bool); *r.Request.DryRun = true })
	if len(answer.Warnings) != 1 || len(*reporter) != 0 {
		t.Errorf("answer %+v, reported %v", answer, *reporter)
	}
}

func TestWhatIsNotAPodBeingCreatedPasses(t *testing.T) {
	h, _ := testHandler(t)
	for name, edit := range map[string]func(*admissionv1.AdmissionReview){
		"update": func(r *admissionv1.AdmissionReview) { r.Request.Operation = admissionv1.Update },
		"delete": func(r *admissionv1.AdmissionReview) {
			r.Request.Operation, r.Request.Object.Raw = admissionv1.Delete, nil
		},
		"kind":  func(r *admissionv1.AdmissionReview) { r.Request.Kind.Kind = "Service" },
		"group": func(r *admissionv1.AdmissionReview) { r.Request.Kind.Group = "other.io" },
	} {
		if _, answer := review(t, h, asking("", agentSpec), edit); answer == nil || !answer.Allowed || len(answer.Patch) != 0 {
			t.Errorf("%s: answer %+v", name, answer)
		}
	}
}

func TestWhatIsNoReviewIsAnError(t *testing.T) {
	h, _ := testHandler(t)
	for name, edit := range map[string]func(*admissionv1.AdmissionReview){
		"version": func(r *admissionv1.AdmissionReview) { r.APIVersion = "admission.k8s.io/v1beta1" },
		"empty":   func(r *admissionv1.AdmissionReview) { r.Request = nil },
		"pod":     func(r *admissionv1.AdmissionReview) { r.Request.Object.Raw = []byte(`{"spec":{"containers":1}}`) },
	} {
		if status, _ := review(t, h, asking("", agentSpec), edit); status < 400 {
			t.Errorf("%s: status %d", name, status)
		}
	}
	for name, request := range map[string]*http.Request{
		"text":  httptest.NewRequest(http.MethodPost, "/inject", strings.NewReader("hello")),
		"large": httptest.NewRequest(http.MethodPost, "/inject", strings.NewReader(strings.Repeat(" ", maxReview+1))),
	} {
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, recorder.Code)
		}
	}
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/inject", strings.NewReader("{}")))
	if recorder.Code != http.StatusBadRequest {
		t.Errorf("without a content type: status %d", recorder.Code)
	}
}
