// Command images makes container images of the product's programs, and needs neither a container daemon nor a base
// image for it: an image is two layers, the roots of public CAs and one static program, and some JSON that names them.
//
//	go -C tools/images run . -programs .cache/images -out dist -version v1.2.3
//	go -C tools/images run . -out dist -push registry.example.com/mesh -version v1.2.3
//
// It takes the programs from DIR/linux-ARCHITECTURE/NAME, one folder for each architecture, and writes DIR/NAME, an OCI
// image layout with all architectures of it. The same programs give the same digests, on any machine, at any time:
// whatever has a time gets that of the commit.
//
// It is a module of its own so that the product depends on nothing of it. The roots are those of Mozilla, from a Go
// module: which they are is thus written in go.sum, and does not depend on the machine that builds.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// program is one of the product's, and what its image is called.
type program struct {
	name, title string
	ports       []string // what it listens on, for people: nothing is opened by it
}

var programs = []program{
	{"waypoint", "L7 gateway of an ambient mesh", []string{"15008/tcp", "15020/tcp", "15021/tcp"}},
	{"waypoint-controller", "Deploys and configures waypoints", []string{"15012/tcp", "15017/tcp", "15020/tcp", "15021/tcp"}},
}

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		stop()
		log.Fatalf("images: %v", err)
	}
}

func run(ctx context.Context) error {
	var b build
	from := flag.String("programs", "", "folder with linux-amd64/waypoint and so on: make images of these")
	out := flag.String("out", "dist", "folder of the image layouts")
	registry := flag.String("push", "", "copy what is in the folder to this registry, with the credentials of ~/.docker/config.json")
	created := flag.Int64("created", 0, "time of the commit, in seconds since 1970")
	flag.StringVar(&b.version, "version", "dev", "tag of the images")
	flag.StringVar(&b.commit, "commit", "unknown", "what they are built of")
	flag.Parse()
	b.created = time.Unix(*created, 0).UTC()
	if *from == "" && *registry == "" {
		return fmt.Errorf("-programs DIR or -push REGISTRY is needed")
	}
	for _, p := range programs {
		layout := filepath.Join(*out, p.name)
		if *from != "" {
			digest, err := b.write(layout, *from, p)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			fmt.Printf("%s  %s\n", digest, layout)
		}
		if *registry != "" {
			name, err := push(ctx, layout, *registry+"/"+p.name+":"+b.version)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			fmt.Println(name)
		}
	}
	fmt.Println("next: " + b.next(*registry))
	return nil
}

// next is what most people do then.
func (b build) next(registry string) string {
	if registry == "" {
		return "make push REGISTRY=registry.example.com/mesh VERSION=" + b.version
	}
	return "helm install waypoint deployments/chart --namespace waypoint-system --create-namespace --wait --set image.registry=" +
		registry + " --set image.tag=" + b.version
}
