package process

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

func TestRunMeasuresAndStops(t *testing.T) {
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ready.Close()
	p, err := Run(context.Background(), Command{
		Path: "/bin/sh", Args: []string{"-c", "while :; do :; done"}, Ready: ready.URL,
		Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for cpu := time.Duration(0); cpu < 20*time.Millisecond; {
		if cpu, err = p.CPU(); err != nil || time.Now().After(deadline) {
			t.Fatalf("CPU = %v, %v of a busy loop", cpu, err)
		}
	}
	if rss, err := p.RSS(); err != nil || rss < 100<<10 {
		t.Errorf("RSS = %d, %v", rss, err)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func TestRunSaysThatItEnded(t *testing.T) {
	_, err := Run(context.Background(), Command{
		Path: "/bin/false", Ready: "http://127.0.0.1:1/", Log: filepath.Join(t.TempDir(), "log"),
	})
	if err == nil {
		t.Error("a program that ends at once was called ready")
	}
}

func TestStatusField(t *testing.T) {
	raw := []byte("Name:\tx\nVmHWM:\t     512 kB\nVmRSS:\t     256 kB\n")
	if got, err := statusField(raw, "VmRSS:"); err != nil || got != 256 {
		t.Errorf("statusField = %d, %v, want 256", got, err)
	}
	if _, err := statusField(raw, "VmSwap:"); err == nil {
		t.Error("a field that is not there was found")
	}
}
