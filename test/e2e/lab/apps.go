package lab

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// EchoApp is manifests of an application that tells what reached it: a
// ServiceAccount and a Service of its name, which takes HTTP at port 80, and for
// each version a Deployment NAME-VERSION with a Service of that name for its pods
// alone.
func EchoApp(name string, versions ...string) string {
	var all strings.Builder
	fmt.Fprintf(&all, `apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: NS}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: NS}
spec: {selector: {app: %[1]s}, ports: [{name: http, port: 80, targetPort: 8080, appProtocol: http}]}
`, name)
	for _, version := range versions {
		fmt.Fprintf(&all, `---
apiVersion: v1
kind: Service
metadata: {name: %[1]s-%[2]s, namespace: NS}
spec: {selector: {app: %[1]s, version: %[2]s}, ports: [{name: http, port: 80, targetPort: 8080, appProtocol: http}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s-%[2]s, namespace: NS}
spec:
  selector: {matchLabels: {app: %[1]s, version: %[2]s}}
  template:
    metadata: {labels: {app: %[1]s, version: %[2]s}}
    spec:
      serviceAccountName: %[1]s
      terminationGracePeriodSeconds: 1
      containers:
      - name: app
        image: example.invalid/istio-release/app:dev
        args: ["--port=8080", "--version=%[2]s"]
        ports: [{containerPort: 8080}]
`, name, version)
	}
	return all.String()
}

// Echo is what an application of [EchoApp] says of a request.
type Echo struct {
	Status  int
	Version string // of the application
	Body    string
}

// Ask sends a request, GET unless the client changes it, and reads the echo.
func Ask(c *http.Client, method, url string, header ...string) (Echo, error) {
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		return Echo{}, err
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := c.Do(request)
	if err != nil {
		return Echo{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	echo := Echo{Status: response.StatusCode, Body: string(body)}
	lines := bufio.NewScanner(strings.NewReader(echo.Body))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "ServiceVersion="); ok {
			echo.Version = value
		}
	}
	return echo, err
}

// Answers waits until a request gets a status, and from a version unless that is
// empty. Before configuration has come everywhere there may be other answers.
func (s *Story) Answers(c *http.Client, method, url string, status int, version string, header ...string) Echo {
	s.Helper()
	var echo Echo
	s.Eventually(fmt.Sprintf("%s %s is answered with %d", method, url, status), func() (err error) {
		echo, err = Ask(c, method, url, header...)
		if err == nil && (echo.Status != status || version != "" && echo.Version != version) {
			err = fmt.Errorf("got %d of version %q: %s", echo.Status, echo.Version, echo.Body)
		}
		return err
	})
	return echo
}
