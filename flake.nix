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
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "bsdffs";
          inherit version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "-p" "bsdffs-cli" ];
          buildType = "dist";
          # The tests mount, and run programs that are not here.
          doCheck = false;
          installPhase = ''
            runHook preInstall
            sh packaging/install --prefix "$out" --sbindir "$out/bin" \
              ${if pkgs.stdenv.hostPlatform.isLinux then "" else "--no-system"} \
              "$(find target -path '*/dist/ffs' -type f | head -n 1)"
            runHook postInstall
          '';
          doInstallCheck = true;
          installCheckPhase = ''sh packaging/smoke "$out/bin/ffs"'';
          meta = {
            description = "The Berkeley Fast File System in user space";
            homepage = "https://github.com/OWNER/ffs";
            license = nixpkgs.lib.licenses.bsd2;
            mainProgram = "ffs";
            platforms = systems;
          };
        };
      });

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
