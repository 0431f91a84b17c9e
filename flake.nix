# Nix: `nix run github:OWNER/ffs -- ls disk.img`, or the module below on NixOS.
{
  description = "The Berkeley Fast File System in user space";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "aarch64-darwin"
      ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      version = (nixpkgs.lib.importTOML ./Cargo.toml).workspace.package.version;
    in
    {
      packages = each (
        pkgs:
        let
          # The program ffs, or with the laboratory the program ffs-lab.
          make =
            { lab }:
            pkgs.rustPlatform.buildRustPackage {
              pname = if lab then "bsdffs-lab" else "bsdffs";
              inherit version;
              src = self;
              cargoLock.lockFile = ./Cargo.lock;
              cargoBuildFlags = [ "-p" "bsdffs-cli" ];
              buildNoDefaultFeatures = !lab;
              buildType = "dist";
              # The tests mount, and run programs that are not here.
              doCheck = false;
              installPhase = ''
                runHook preInstall
                ffs=$(find target -path '*/dist/ffs' -type f | head -n 1)
                sh packaging/install --prefix "$out" --sbindir "$out/bin" \
                  ${if pkgs.stdenv.hostPlatform.isLinux && !lab then "" else "--no-system"} \
                  ${if lab then ''--destdir "$TMPDIR/ffs" --lab-destdir / "$ffs"'' else ""} "$ffs"
                runHook postInstall
              '';
              doInstallCheck = true;
              installCheckPhase = ''sh packaging/smoke "$out/bin/${if lab then "ffs-lab" else "ffs"}"'';
              meta = {
                description = "The Berkeley Fast File System in user space";
                homepage = "https://github.com/OWNER/ffs";
                license = nixpkgs.lib.licenses.bsd2;
                mainProgram = if lab then "ffs-lab" else "ffs";
                platforms = systems;
              };
            };
        in
        {
          default = make { lab = false; };
          lab = make { lab = true; };
        }
      );

      # The program, and the helpers where mount(8) of NixOS finds them.
      nixosModules.default =
        { pkgs, ... }:
        let
          ffs = self.packages.${pkgs.stdenv.hostPlatform.system}.default;
        in
        {
          environment.systemPackages = [ ffs ];
          system.fsPackages = [ ffs ];
          services.udev.packages = [ ffs ];
          systemd.packages = [ ffs ];
        };
    };
}
