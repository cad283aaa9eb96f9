package bed

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

var discardLog = log.New(io.Discard, "", 0)

// Call is one verb that kube-scheduler sent.
type Call struct {
	Verb   string // filter, prioritize, bind or preempt
	Pod    string // NAMESPACE/NAME
	Nodes  int    // offered, for filter and prioritize
	Status int
	Answer []byte
}

// Verbs stands between kube-scheduler and Berth and records every call.
type Verbs struct {
	server *httptest.Server
	next   *httputil.ReverseProxy

	mu       sync.Mutex
	calls    []Call
	inFlight map[string]int
}

func newVerbs(target string) (*Verbs, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	v := &Verbs{
		inFlight: map[string]int{},
		next: &httputil.ReverseProxy{
			Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to) },
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
			ErrorLog:     discardLog,
		},
	}
	v.server = httptest.NewUnstartedServer(v)
	v.server.Config.ErrorLog = discardLog
	v.server.Start()
	return v, nil
}

func (v *Verbs) close() {
	if v != nil {
		v.server.CloseClientConnections()
		v.server.Close()
	}
}

func (v *Verbs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	verb := strings.TrimPrefix(r.URL.Path, "/")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))

	v.mu.Lock()
	v.inFlight[verb]++
	v.mu.Unlock()
	answer := httptest.NewRecorder()
	defer func() {
		call := describe(verb, body)
		call.Status, call.Answer = answer.Code, answer.Body.Bytes()
		v.mu.Lock()
		defer v.mu.Unlock()
		v.inFlight[verb]--
		v.calls = append(v.calls, call)
	}()
	v.next.ServeHTTP(answer, r)
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// describe reads from a request which pod it is about.
func describe(verb string, body []byte) Call {
	call := Call{Verb: verb}
	switch verb {
	case "bind":
		var args extenderv1.ExtenderBindingArgs
		if json.Unmarshal(body, &args) == nil {
			call.Pod = args.PodNamespace + "/" + args.PodName
		}
	case "preempt":
		var args extenderv1.ExtenderPreemptionArgs
		if json.Unmarshal(body, &args) == nil && args.Pod != nil {
			call.Pod = args.Pod.Namespace + "/" + args.Pod.Name
		}
	default:
		var args extenderv1.ExtenderArgs
		if json.Unmarshal(body, &args) == nil && args.Pod != nil {
			call.Pod = args.Pod.Namespace + "/" + args.Pod.Name
			if args.NodeNames != nil {
				call.Nodes = len(*args.NodeNames)
			}
		}
	}
	return call
}

// Calls returns the finished calls of a verb, of one pod or (pod "") of all.
func (v *Verbs) Calls(verb, pod string) []Call {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []Call
	for _, call := range v.calls {
		if call.Verb == verb && (pod == "" || call.Pod == pod) {
			found = append(found, call)
		}
	}
	return found
}

// InFlight is how many calls of a verb have no answer yet.
func (v *Verbs) InFlight(verb string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.inFlight[verb]
}
