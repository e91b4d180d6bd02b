#include "cmd/library_gates.h"

#include <algorithm>
#include <array>

namespace berth::cmd {

namespace {

using Lock = LibraryGate::Lock;

// As of version 0.36.1 of the library, which csi-provisioner 6.3, csi-attacher 4.12, csi-resizer
// 2.2 and the programs of external-snapshotter 8.6 have. The gates of client-go and those of
// component-base/logs are not in the set: the sidecars refuse them.
constexpr std::array kGates = {
    // k8s.io/apiserver/pkg/features
    LibraryGate{"APIResponseCompression"},
    LibraryGate{"APIServerIdentity"},
    LibraryGate{"APIServerTracing", Lock::kOn},
    LibraryGate{"APIServingWithRoutine"},
    LibraryGate{"AggregatedDiscoveryRemoveBetaType", Lock::kOn},
    LibraryGate{"AllowParsingUserUIDFromCertAuth"},
    LibraryGate{"AllowUnsafeMalformedObjectDeletion"},
    LibraryGate{"AnonymousAuthConfigurableEndpoints", Lock::kOn},
    LibraryGate{"AuthorizeWithSelectors", Lock::kOn},
    LibraryGate{"BtreeWatchCache", Lock::kOn},
    LibraryGate{"CBORServingAndStorage"},
    LibraryGate{"ConcurrentWatchObjectDecode"},
    LibraryGate{"ConsistentListFromCache", Lock::kOn},
    LibraryGate{"ConstrainedImpersonation"},
    LibraryGate{"CoordinatedLeaderElection"},
    LibraryGate{"DeclarativeValidation", Lock::kOn},
    LibraryGate{"DeclarativeValidationBeta"},
    LibraryGate{"DeclarativeValidationTakeover"},
    LibraryGate{"DetectCacheInconsistency"},
    LibraryGate{"KMSv1"},
    LibraryGate{"ListFromCacheSnapshot"},
    LibraryGate{"ManifestBasedAdmissionControlConfig"},
    LibraryGate{"MutatingAdmissionPolicy"},
    LibraryGate{"OpenAPIEnums"},
    LibraryGate{"RemoteRequestHeaderUID"},
    LibraryGate{"ResilientWatchCacheInitialization", Lock::kOn},
    LibraryGate{"RetryGenerateName", Lock::kOn},
    LibraryGate{"SeparateCacheWatchRPC", Lock::kOff},
    LibraryGate{"ShardedListAndWatch"},
    LibraryGate{"SizeBasedListCostEstimate"},
    LibraryGate{"StorageVersionAPI"},
    LibraryGate{"StorageVersionHash"},
    LibraryGate{"StreamingCollectionEncodingToJSON", Lock::kOn},
    LibraryGate{"StreamingCollectionEncodingToProtobuf", Lock::kOn},
    LibraryGate{"StructuredAuthenticationConfiguration", Lock::kOn},
    LibraryGate{"StructuredAuthenticationConfigurationEgressSelector"},
    LibraryGate{"StructuredAuthenticationConfigurationJWKSMetrics"},
    LibraryGate{"TokenRequestServiceAccountUIDValidation"},
    LibraryGate{"UnauthenticatedHTTP2DOSMitigation"},
    LibraryGate{"UnknownVersionInteroperabilityProxy"},
    LibraryGate{"WatchCacheInitializationPostStartHook"},
    LibraryGate{"WatchList"},
    // k8s.io/component-base/zpages/features
    LibraryGate{"ComponentFlagz"},
    LibraryGate{"ComponentStatusz"},
    // k8s.io/component-base/metrics/features
    LibraryGate{"NativeHistograms"},
};

}  // namespace

std::span<const LibraryGate> LibraryGates() { return kGates; }

const LibraryGate* FindLibraryGate(std::string_view name) {
  const auto found = std::ranges::find(kGates, name, &LibraryGate::name);
  return found == kGates.end() ? nullptr : &*found;
}

}  // namespace berth::cmd
