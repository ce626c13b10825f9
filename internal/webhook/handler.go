package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxReview bounds a request. The API server's own limit on an object is 3 MiB, and a review may have it twice.
const maxReview = 8 << 20

// reporter is told of pods that were skipped.
type reporter interface {
	// skipped must not block. The pod may have no name yet.
	skipped(namespace string, pod *corev1.Pod, d Decision)
}

// handler answers the API server's AdmissionReviews.
type handler struct {
	template func() *Template
	reporter reporter // nil: nobody
	log      *slog.Logger
}

// ServeHTTP implements http.Handler. What is no review gets an error, on which the API server does what its failurePolicy
// says.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review, err := readReview(w, r)
	if err != nil {
		h.log.Warn("not an admission review", "error", err, "from", r.RemoteAddr)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := h.answer(review.Request)
	if err != nil {
		h.log.Error("admission review", "error", err, "namespace", review.Request.Namespace, "pod", review.Request.Name)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer.UID = review.Request.UID
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the API server has gone, if this fails
}

func readReview(w http.ResponseWriter, r *http.Request) (*admissionv1.AdmissionReview, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, errors.New("the content is not application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if err != nil {
		return nil, fmt.Errorf("read the review: %w", err)
	}
	review := new(admissionv1.AdmissionReview)
	if err := json.Unmarshal(body, review); err != nil {
		return nil, fmt.Errorf("read the review: %w", err)
	}
	if want := admissionv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Request == nil {
		return nil, fmt.Errorf("%q is not an AdmissionReview of %s with a request", review.APIVersion, want)
	}
	return review, nil
}

// answer decides about a pod that is to be created, and lets pass what is something else.
func (h *handler) answer(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	answer := &admissionv1.AdmissionResponse{Allowed: true}
	if request.Operation != admissionv1.Create || request.Kind.Kind != "Pod" || request.Kind.Group != "" {
		return answer, nil
	}
	pod := new(corev1.Pod)
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return nil, fmt.Errorf("read the pod: %w", err)
	}
	t := h.template()
	d := Decide(pod, t)
	h.tell(request, pod, d)
	if d.Outcome == Skipped {
		why := fmt.Sprintf("fence-proxy is not injected: %s: %s", d.Reason, d.Detail)
		if t.Refuse {
			answer.Allowed = false
			answer.Result = &metav1.Status{Message: why, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden}
			return answer, nil
		}
		answer.Warnings = []string{why}
	}
	if len(d.Patch) == 0 {
		return answer, nil
	}
	var err error
	kind := admissionv1.PatchTypeJSONPatch
	answer.PatchType = &kind
	answer.Patch, err = json.Marshal(d.Patch)
	return answer, err
}

// tell logs a decision, and reports a pod that was skipped unless it is only tried out.
func (h *handler) tell(request *admissionv1.AdmissionRequest, pod *corev1.Pod, d Decision) {
	name, dry := pod.Name, request.DryRun != nil && *request.DryRun
	if name == "" {
		name = pod.GenerateName + "*"
	}
	log := h.log.With("namespace", request.Namespace, "pod", name, "dry", dry)
	switch d.Outcome {
	case Untouched:
		log.Debug("untouched")
	case Injected:
		log.Info("injected")
	case Skipped:
		log.Warn("skipped", "reason", d.Reason, "detail", d.Detail)
		if h.reporter != nil && !dry {
			h.reporter.skipped(request.Namespace, pod, d)
		}
	}
}
