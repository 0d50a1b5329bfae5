// Package mlflow is a client of the REST API 2.0 of an MLflow tracking server: experiments, runs, and what is logged of them.
//
// It asks once and never again by itself: whoever calls knows what a repetition does. Errors are of package exit: those with the codes
// Unreachable and TimedOut may pass by themselves, others do not.
package mlflow

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// callWait bounds one call.
	callWait = 30 * time.Second
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 16 << 20
	// maxSaid bounds what is shown of a server's words, in bytes.
	maxSaid = 300
)

// Config is where a server is and who asks.
type Config struct {
	URI      string // http or https, maybe with a path; no user in it
	Token    string // sent as bearer; empty: none
	Username string // sent with Password where there is no token; empty: none
	Password string
	Agent    string // names this program to the server

	Transport http.RoundTripper // nil: the usual one
}

// Client asks one server. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	config Config
	http   *http.Client
}

// New returns a client of a server; nothing is asked yet.
func New(c Config) (*Client, error) {
	const want = "give the address of an MLflow server, such as --mlflow http://127.0.0.1:5000; mlflow server starts one"
	base, err := url.Parse(c.URI)
	switch {
	case err != nil: // it may have a password in it
		return nil, exit.New(exit.Usage, want, "--mlflow has no URI")
	case base.User != nil:
		return nil, exit.New(exit.Usage, "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN: others see command lines", "--mlflow has a user or a password in its URI")
	case base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "" || base.RawQuery != "" || base.Fragment != "":
		return nil, exit.New(exit.Usage, want, "--mlflow %.200q is no address of a server", c.URI)
	}
	transport := c.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxResponseHeaderBytes = 64 << 10
		transport = own
	}
	return &Client{base: base.JoinPath("api", "2.0", "mlflow"), config: c, http: &http.Client{
		Timeout: callWait, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a POST would become a GET
	}}, nil
}

// Close closes connections that are kept.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// refused is what a server says of a call that it does not carry out.
type refused struct {
	Code    string `json:"error_code"`
	Message string `json:"message"`
}

// Error returns the server's words, made safe and short.
func (r *refused) Error() string {
	if r.Message == "" {
		return text.Clip(text.Line(r.Code), maxSaid)
	}
	return text.Clip(text.Line(r.Message), maxSaid)
}

// is reports whether a server refused with a code.
func is(err error, code string) bool {
	r, ok := errors.AsType[*refused](err)
	return ok && r.Code == code
}

// call asks for something. in is the body of a POST, or the query of a GET; out is decoded from the answer, unless it is nil.
func (c *Client) call(ctx context.Context, name string, in, out any) error {
	at, method, body := c.base.JoinPath(name), http.MethodPost, []byte(nil)
	if query, ok := in.(url.Values); ok {
		at.RawQuery, method = query.Encode(), http.MethodGet
	} else {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = raw
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", c.config.Agent)
	switch {
	case c.config.Token != "":
		req.Header.Set("Authorization", "Bearer "+c.config.Token)
	case c.config.Username != "":
		req.SetBasicAuth(c.config.Username, c.config.Password)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.unreached(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // it was read
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.unreached(ctx, err)
	case len(raw) > maxAnswer:
		return exit.New(exit.Failed, "is it an MLflow server?", "%s answers with more than %d MiB", c, maxAnswer>>20)
	case res.StatusCode != http.StatusOK:
		return c.judge(res, raw)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return c.stranger("its answer is no JSON of MLflow's")
	}
	return nil
}

// String names the server.
func (c *Client) String() string { return "MLflow at " + c.config.URI }

// unreached says why no answer came.
func (c *Client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err // it names the server and the method again
	}
	unknown, invalid, host := x509.UnknownAuthorityError{}, x509.CertificateInvalidError{}, x509.HostnameError{}
	switch {
	case errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &host):
		return exit.New(exit.Failed, "name the authorities that signed its certificate with SSL_CERT_FILE", "%s is not trusted: %w", c, err)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return exit.New(exit.Usage, "give its URI with http", "%s speaks no TLS", c)
	}
	return exit.New(exit.Unreachable, "is it running? mlflow server starts one; give its address with --mlflow", "%s does not answer: %s", c, text.Clip(text.Line(err.Error()), maxSaid))
}

// stranger is the error for something that is no server of ours.
func (c *Client) stranger(why string) error {
	return exit.New(exit.Failed, "give the URI that its page has in a browser, without what stands behind a #; it must have MLflow's REST API 2.0", "%s is no MLflow server that can be used: %s", c, why)
}

// judge says what an answer means that is not 200.
func (c *Client) judge(res *http.Response, raw []byte) error {
	said := &refused{}
	ours := json.Unmarshal(raw, said) == nil && said.Code != ""
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		return exit.New(exit.Denied, "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD", "%s does not know who asks", c)
	case code == http.StatusForbidden:
		return exit.New(exit.Denied, "ask its administrator to let this user write into the experiment, or name another one with --experiment", "%s does not let this user do that", c)
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		if !ours {
			return exit.New(exit.Unreachable, "wait, or look into its log", "%s answers %s", c, text.Line(res.Status))
		}
		return exit.New(exit.Unreachable, "wait, or look into its log", "%s answers %s: %w", c, text.Line(res.Status), said)
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return c.stranger(text.Clip("it sends on to "+text.Line(res.Header.Get("Location")), maxSaid))
	case !ours:
		return c.stranger("it answers " + text.Line(res.Status))
	}
	return exit.New(exit.Failed, "a run or an experiment that is deleted can be restored in MLflow; or name another experiment with --experiment", "%s refuses: %w", c, said)
}

// number is an integer of JSON that servers write as such or in quotes.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(raw []byte) error {
	var v int64
	if err := json.Unmarshal(bytes.Trim(raw, `"`), &v); err != nil {
		return fmt.Errorf("%.40q is no integer", raw)
	}
	*n = number(v)
	return nil
}
