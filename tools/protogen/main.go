// Command protogen makes the Go code of the protocol buffers under api/. It is a module of its own, so that a compiler for
// .proto files is no dependency of the product, and it needs nothing but Go. Files with services get a second Go file, for grpc:
//
//	go -C tools/protogen run .
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	apiDir    = "../../api"
	goPackage = "github.com/waypoint-mesh/waypoint/api"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatalf("protogen: %v", err)
	}
}

func run(ctx context.Context) error {
	sources, err := protoFiles()
	if err != nil {
		return err
	}
	request, err := compile(ctx, sources)
	if err != nil {
		return err
	}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		response, err := generate(ctx, plugin, request)
		if err != nil {
			return fmt.Errorf("%s: %w", plugin, err)
		}
		if err := write(response); err != nil {
			return err
		}
	}
	return nil
}

func write(response *pluginpb.CodeGeneratorResponse) error {
	for _, file := range response.GetFile() {
		if err := os.WriteFile(filepath.Join(apiDir, file.GetName()), []byte(file.GetContent()), 0o644); err != nil { //nolint:gosec // sources are for everybody to read
			return err
		}
	}
	return nil
}

// protoFiles lists the sources relative to api/, which is also how they import each other.
func protoFiles() ([]string, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(apiDir), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".proto") {
			names = append(names, path)
		}
		return err
	})
	return names, err
}

// compile turns the sources into what a protoc plugin is given: every file and what it imports, imports first.
func compile(ctx context.Context, sources []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{apiDir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, sources...)
	if err != nil {
		return nil, err
	}
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: sources,
		Parameter:      proto.String("module=" + goPackage),
		ProtoFile:      withImports(files),
	}, nil
}

func withImports(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		all = append(all, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	return all
}

// generate runs a plugin of protoc, which this module names as its tool, so go.sum pins it.
func generate(ctx context.Context, name string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	plugin := exec.CommandContext(ctx, "go", "tool", name)
	plugin.Stdin = bytes.NewReader(in)
	plugin.Stderr = os.Stderr
	out, err := plugin.Output()
	if err != nil {
		return nil, err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response, nil
}
