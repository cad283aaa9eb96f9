package bed

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// replicaPath and a name before a path say which replica a request comes from.
const replicaPath = "/replica/"

// Proxy is a reverse proxy before the API server. Without rules it passes
// everything on; rules delay, refuse, hold or cut single requests.
type Proxy struct {
	server *http.Server
	port   int
	next   *httputil.ReverseProxy

	mu    sync.Mutex
	rules []*Rule
}

// Action answers a request that a rule matched. forward passes it on.
type Action func(w http.ResponseWriter, r *http.Request, forward func(http.ResponseWriter))

// Rule says which requests are treated specially. The first rule that matches
// wins; a rule whose Times are used up no longer matches.
type Rule struct {
	Method string         // "" matches every method
	Path   *regexp.Regexp // against the URL path
	// Match is an optional further condition. It is called under the proxy's
	// lock, one request at a time.
	Match func(r *http.Request, body []byte) bool
	Skip  int // so many matches pass untouched first
	Times int // then so many are acted on; 0 = all
	Do    Action

	seen int // guarded by Proxy.mu
	hits atomic.Int64
}

// Hits is how many requests the rule has acted on.
func (r *Rule) Hits() int { return int(r.hits.Load()) }

func newProxy(target string, ca *authority) (*Proxy, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{next: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		// Watch events must not wait for a buffer to fill.
		FlushInterval: -1,
		Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: ca.pool()},
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 64,
		},
		// An API server that is down looks to the client like one: the
		// connection ends without an answer.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     discardLog,
	}}
	l, err := net.Listen("tcp", Address(0))
	if err != nil {
		return nil, err
	}
	p.port = l.Addr().(*net.TCPAddr).Port
	p.server = &http.Server{
		Handler:   p,
		ErrorLog:  discardLog,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{ca.pair}},
	}
	go func() { _ = p.server.ServeTLS(l, "", "") }()
	return p, nil
}

// URL is the address that clients use in place of the API server's.
func (p *Proxy) URL() string { return Loopback("https", p.port, "") }

func (p *Proxy) close() { _ = p.server.Close() }

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Rules look at bodies; and the server notices that a client has gone only
	// once the body is read.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if named, ok := strings.CutPrefix(r.URL.Path, replicaPath); ok {
		name, path, _ := strings.Cut(named, "/")
		r.URL.Path, r.URL.RawPath = "/"+path, ""
		r.Header.Set(replicaHeader, name)
	}
	rule := p.match(r, body)
	if rule == nil {
		p.next.ServeHTTP(w, r)
		return
	}
	rule.Do(w, r, func(w http.ResponseWriter) { p.next.ServeHTTP(w, r) })
}

func (p *Proxy) match(r *http.Request, body []byte) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rule := range p.rules {
		if rule.Method != "" && rule.Method != r.Method {
			continue
		}
		if rule.Path != nil && !rule.Path.MatchString(r.URL.Path) {
			continue
		}
		if rule.Match != nil && !rule.Match(r, body) {
			continue
		}
		rule.seen++
		if rule.seen <= rule.Skip || rule.Times > 0 && rule.seen > rule.Skip+rule.Times {
			continue
		}
		rule.hits.Add(1)
		return rule
	}
	return nil
}

// Add puts a rule into force.
func (p *Proxy) Add(rule *Rule) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rule)
	return rule
}

// Remove takes a rule out of force; requests that it holds stay held.
func (p *Proxy) Remove(rule *Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = slices.DeleteFunc(p.rules, func(r *Rule) bool { return r == rule })
}

// Clear removes all rules.
func (p *Proxy) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Delay passes requests on after d.
func Delay(d time.Duration) Action {
	return func(w http.ResponseWriter, r *http.Request, forward func(http.ResponseWriter)) {
		select {
		case <-time.After(d):
			forward(w)
		case <-r.Context().Done():
		}
	}
}

// Fail answers with a status code in place of the API server.
func Fail(status int) Action {
	return func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"refused by the test","code":%d}`, status)
	}
}

// DropAfterEffect lets the request take effect, and cuts the connection before
// the client has an answer.
func DropAfterEffect() Action {
	return func(_ http.ResponseWriter, _ *http.Request, forward func(http.ResponseWriter)) {
		forward(httptest.NewRecorder())
		panic(http.ErrAbortHandler)
	}
}

// Hold keeps requests until Release. A request whose client goes away meanwhile
// never takes effect.
type Hold struct {
	waiting  atomic.Int64
	released chan struct{}
	once     sync.Once
}

// NewHold returns a hold whose Action is used in rules.
func NewHold() *Hold { return &Hold{released: make(chan struct{})} }

// Waiting is how many requests are held now.
func (h *Hold) Waiting() int { return int(h.waiting.Load()) }

// Release lets the held requests, and all later ones, pass.
func (h *Hold) Release() { h.once.Do(func() { close(h.released) }) }

// Action is what a rule does to hold its requests.
func (h *Hold) Action(w http.ResponseWriter, r *http.Request, forward func(http.ResponseWriter)) {
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	select {
	case <-h.released:
		forward(w)
	case <-r.Context().Done():
	}
}

// Paths that rules often name.
var (
	// BindingPath is a pod's binding sub-resource.
	BindingPath = regexp.MustCompile(`^/api/v1/namespaces/[^/]+/pods/[^/]+/binding$`)
	// PodPath is a pod itself, without its sub-resources.
	PodPath = regexp.MustCompile(`^/api/v1/namespaces/[^/]+/pods/[^/]+$`)
)

// GetOptions asks for the newest version of an object.
var GetOptions = metav1.GetOptions{}

// ProxyClient is a client with Berth's rights that goes through the proxy.
func (b *Bed) ProxyClient(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host:            b.Proxy.URL(),
		BearerToken:     b.berthToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: b.ca.pem},
	})
	must(t, err)
	return client
}

// Bind binds a pod as an extender does.
func Bind(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, node string) error {
	return client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
}
