package admin

import (
	"html/template"
	"net/http"
	"strings"
	"text/tabwriter"
)

// page is one path of a port.
type page struct {
	pattern string // of http.ServeMux, without a method
	methods []string
	show    string // the path with its parameters, as people write it
	doc     string
	handler http.Handler
}

// mux serves pages.
func mux(pages []page) http.Handler {
	m := http.NewServeMux()
	for _, p := range pages {
		m.Handle(p.pattern, allow(p.methods, p.handler))
	}
	return m
}

// allow refuses other methods, and names those that there are.
func allow(methods []string, h http.Handler) http.Handler {
	allowed := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, m := range methods {
			if r.Method == m || m == http.MethodGet && r.Method == http.MethodHead {
				h.ServeHTTP(w, r)
				return
			}
		}
		w.Header().Set("Allow", allowed)
		http.Error(w, "this page takes "+allowed, http.StatusMethodNotAllowed)
	})
}

var get, post = []string{http.MethodGet}, []string{http.MethodPost}

// index shows the pages of a port, as HTML to browsers and as text to others.
func index(title string, pages []page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
			_ = indexPage.Execute(w, map[string]any{"title": title, "pages": shown(pages)})
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		answer(w, title+"\n\n")
		columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, p := range shown(pages) {
			answerf(columns, "%s\t%s\t%s\n", p.Methods, p.Show, p.Doc)
		}
		_ = columns.Flush() // whoever asked is gone
	})
}

// line is a page as the index shows it.
type line struct {
	Methods, Show, Doc string
	Link               string // empty: not by a mere click
}

func shown(pages []page) (lines []line) {
	for _, p := range pages {
		l := line{Methods: strings.Join(p.methods, ", "), Show: p.show, Doc: p.doc}
		if p.methods[0] == http.MethodGet {
			l.Link, _, _ = strings.Cut(p.show, "[")
		}
		lines = append(lines, l)
	}
	return lines
}

var indexPage = template.Must(template.New("index").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{.title}}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
td { padding: .3rem 1rem .3rem 0; vertical-align: top }
td:nth-child(2) { font-family: ui-monospace, monospace; white-space: nowrap }
</style>
<h1>{{.title}}</h1>
<table>
{{range .pages}}<tr><td>{{.Methods}}<td>{{if .Link}}<a href="{{.Link}}">{{.Show}}</a>{{else}}{{.Show}}{{end}}<td>{{.Doc}}
{{end}}</table>
`))
