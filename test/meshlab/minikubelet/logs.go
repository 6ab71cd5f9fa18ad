package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

// serveLogs is GET /containerLogs/{ns}/{pod}/{container} with follow and tailLines, as the API server asks for `kubectl logs`.
func (k *kubelet) serveLogs(w http.ResponseWriter, r *http.Request) {
	file := k.logOf(r.PathValue("ns")+"/"+r.PathValue("pod"), r.PathValue("container"))
	f, err := os.Open(file)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	query := r.URL.Query()
	if n, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		if err := seekTail(f, n); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	if err := copyLog(w, f, r, query.Get("follow") == "true"); err != nil {
		log.Print("logs: ", err)
	}
}

// logOf is the log file of a container, empty if there is none.
func (k *kubelet) logOf(pod, container string) string {
	p := k.view.get(pod)
	if p == nil {
		return ""
	}
	for _, c := range p.containers {
		if c.spec.Name == container {
			return c.log
		}
	}
	return ""
}

// seekTail goes to where the last lines begin. Logs of a lab are small.
func seekTail(f *os.File, lines int) error {
	content, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	at := len(content)
	for range lines + 1 { // the last one ends in a newline, too
		at = bytes.LastIndexByte(content[:max(at, 0)], '\n')
	}
	_, err = f.Seek(int64(at+1), io.SeekStart)
	return err
}

// copyLog copies what is there and, to who follows, what is written until they go.
func copyLog(w http.ResponseWriter, f *os.File, r *http.Request, follow bool) error {
	control := http.NewResponseController(w)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := io.Copy(w, f); err != nil || !follow {
			return err
		}
		if err := control.Flush(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return nil
		}
	}
}
